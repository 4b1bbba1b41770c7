"""What a jar without a program that Weir can run is told of."""

import zipfile

import pytest

from weir_operator.errors import PermanentError
from weir_operator.flink.program_jars import refuse_unsuitable_jar

PROGRAM = b"\xca\xfe\xba\xbe\x01\x00\x04main\x01\x00\x16([Ljava/lang/String;)V"
VERSION_2 = PROGRAM + b"\x01\x00\x34org/apache/flink/datastream/api/ExecutionEnvironment"


@pytest.fixture
def jar(tmp_path):
    def jar(classes, manifest=""):
        path = tmp_path / "job.jar"
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\n{manifest}")
            for name, content in classes.items():
                file.writestr(name, content)
        return path

    return jar


def refusal_of(*arguments):
    with pytest.raises(PermanentError) as refusal:
        refuse_unsuitable_jar(*arguments)
    return str(refusal.value)


def test_a_jar_without_a_main_class_names_those_that_it_has(jar):
    path = jar({"acme/Orders.class": PROGRAM, "acme/Order.class": b"", "acme/Hot.class": PROGRAM})

    assert refusal_of(path, None) == (
        "job.jar names no main class: add --entry-class, or spec.flink.job.entryClass; classes "
        "with a main in it: acme.Hot, acme.Orders"
    )


def test_a_jar_that_names_its_class_and_one_whose_class_was_asked_for_are_right(jar):
    path = jar({"acme/Orders.class": PROGRAM}, "Main-Class: acme.Orders\r\n")

    refuse_unsuitable_jar(path, None)
    refuse_unsuitable_jar(jar({"acme/Orders.class": PROGRAM}), "acme.Orders")


def test_a_file_that_is_no_jar_is_named(tmp_path):
    (tmp_path / "text.jar").write_text("hello")

    assert f"{tmp_path / 'text.jar'} is no jar" in refusal_of(tmp_path / "text.jar", None)


def test_a_program_of_the_second_datastream_api_is_refused(jar):
    path = jar({"dsv2/Sales.class": VERSION_2})

    assert "dsv2.Sales is a program of the DataStream API V2" in refusal_of(path, "dsv2.Sales")
