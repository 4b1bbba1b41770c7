"""Building jars with plain `javac`, and what is said where something is missing."""

import os
import zipfile

import pytest

from weir_operator.errors import PermanentError
from weir_operator.flink import jars

pytestmark = pytest.mark.flink


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "Hello.java"
    path.write_text("package example; public final class Hello {}\n")
    return path


@pytest.fixture
def fake_java(tmp_path, monkeypatch):
    """Put a `java` that claims the version `claim` first on `PATH`."""
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def claim(version):
        java = tmp_path / "java"
        java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
        java.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return java

    return claim


def names_in(jar):
    with zipfile.ZipFile(jar) as archive:
        return set(archive.namelist())


def test_a_jar_holds_the_classes_and_names_its_main_class(source, tmp_path):
    jar = jars.build_jar([source], tmp_path / "new/hello.jar", entry_class="example.Hello")

    with zipfile.ZipFile(jar) as archive:
        assert "example/Hello.class" in archive.namelist()
        assert b"Main-Class: example.Hello\n" in archive.read("META-INF/MANIFEST.MF")


def test_a_jar_of_the_same_sources_is_not_built_again(source, tmp_path):
    jar = jars.build_jar([source], tmp_path / "hello.jar")
    first = jar.stat().st_ino

    jars.build_jar([source], jar)

    assert jar.stat().st_ino == first


def test_a_changed_source_is_compiled_again(source, tmp_path):
    jar = jars.build_jar([source], tmp_path / "hello.jar")
    source.write_text("package example; public final class Hello { static class Inner {} }\n")

    jars.build_jar([source], jar)

    assert "example/Hello$Inner.class" in names_in(jar)


def test_a_damaged_jar_is_built_again(source, tmp_path):
    jar = tmp_path / "hello.jar"
    jar.write_bytes(b"PK half of a jar")

    jars.build_jar([source], jar)

    assert zipfile.is_zipfile(jar)


def test_a_source_that_does_not_compile_is_told_by_the_compilers_first_message(source, tmp_path):
    source.write_text("package example; public final class Hello { int broken = ; }\n")

    with pytest.raises(PermanentError, match=r"Hello\.java:1: error: illegal start of expression"):
        jars.build_jar([source], tmp_path / "hello.jar")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["Hello.java"]


def test_a_missing_source_is_named(tmp_path):
    with pytest.raises(PermanentError, match=r"Cannot read .*Absent\.java: No such file"):
        jars.build_jar([tmp_path / "Absent.java"], tmp_path / "absent.jar")


def test_a_program_that_hangs_is_named_without_its_many_arguments(monkeypatch, fake_java, tmp_path):
    java = fake_java("openjdk 21")
    java.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(jars, "_TIME_LIMIT", 0.1)

    with pytest.raises(PermanentError, match=rf"^Expected {java} to end within 0\.1 s: run"):
        jars.find_java()


def test_without_flink_the_extra_to_install_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(PermanentError, match=r"pip install 'weir-flink\[flink\]'"):
        jars.flink_home()


def test_without_java_the_version_to_install_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(PermanentError, match="No java on PATH: install a JDK, version 11 or newer"):
        jars.find_java()


def test_a_java_home_without_java_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(PermanentError, match="No java in JAVA_HOME"):
        jars.find_java()


@pytest.mark.parametrize("version", ['openjdk version "11.0.2" 2019', 'openjdk version "21" 2023'])
def test_java_eleven_and_newer_are_taken(fake_java, version):
    java = fake_java(version)

    assert jars.find_java() == java


def test_java_eight_is_refused_by_its_name(fake_java):
    fake_java('java version "1.8.0_392"')

    with pytest.raises(PermanentError, match="is Java 8: Flink needs Java 11 or newer"):
        jars.find_java()


def test_a_java_without_a_version_is_refused_with_what_it_said(fake_java):
    fake_java("Error: could not find libjava.so")

    with pytest.raises(PermanentError, match=r"could not find libjava\.so"):
        jars.find_java()


def test_the_repositorys_own_jars_hold_the_helper_and_the_jobs():
    helper, programs, *examples, foreign = jars.build_all()

    assert "dev/weir/Weir.class" in names_in(helper)
    assert {f"dev/weir/{each.stem}.class" for each in jars.PROGRAMS} <= names_in(programs)
    entries = ("Trips", "Routes", "WordCount", "HotItems", "Nexmark")
    for jar, entry in zip(examples, entries, strict=True):
        assert {"dev/weir/Weir.class", f"example/{entry}.class"} <= names_in(jar)
    assert names_in(foreign) == {
        "META-INF/MANIFEST.MF", "META-INF/weir-sources.sha256", "example/Foreign.class"
    }  # fmt: skip
