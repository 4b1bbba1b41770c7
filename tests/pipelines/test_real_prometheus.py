"""History from a real Prometheus with limits, a password, and a certificate of its own."""

import shutil
import socket
import ssl
import subprocess

import pytest
from urllib3.util.ssl_ import create_urllib3_context

from weir_pipelines import prometheus
from weir_pipelines.errors import SourceError
from weir_pipelines.ingest import begin_of, day_of
from weir_pipelines.metrics import METRICS, RECORDS_IN
from weir_pipelines.prometheus import PasswordFromFolder, PrometheusHistory, PrometheusSettings

pytestmark = pytest.mark.prometheus

APP = "shop/trips"
DAY = day_of(1_772_409_600_000)
EVERY = 15
REPLICAS = 4
HOURS = 2
MAX_SAMPLES = 1000
"""Two hours are 1920 samples of the four series."""
BCRYPT = "$2b$04$9fJcmuuvDPYkP0.quJbzEeyZ8fwigixzAmUMFyAK4HN7akB0DR2OW"
"""Of the password `secret`."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the server's blocks, its certificate, and the Secret to log in with."""
    for program in ("prometheus", "promtool", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing: apt-get install prometheus openssl (Debian)")
    folder = tmp_path_factory.mktemp("prometheus")
    lines = [f"# TYPE {METRICS[RECORDS_IN]} gauge"]
    for replica in range(REPLICAS):
        labels = f'weir_app="{APP}",weir_operator="match",tm_id="{replica}"'
        lines += [
            f"{METRICS[RECORDS_IN]}{{{labels}}} {time} {begin_of(DAY) + time}"
            for time in range(0, HOURS * 3600, EVERY)
        ]
    (folder / "samples.txt").write_text("\n".join([*lines, "# EOF", ""]))
    blocks = ("promtool", "tsdb", "create-blocks-from", "openmetrics")
    subprocess.run([*blocks, "samples.txt", "tsdb"], cwd=folder, check=True, capture_output=True)
    # A CA without key usage, as people make them.
    (folder / "ca.cnf").write_text(
        "[req]\ndistinguished_name=n\n[n]\n[ca]\nbasicConstraints=critical,CA:TRUE\n"
        "[server]\nsubjectAltName=IP:127.0.0.1\n"
    )
    key = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    for arguments in (
        (*key, "-x509", "-config", "ca.cnf", "-extensions", "ca", "-subj", "/CN=ca",
         "-keyout", "ca.key", "-out", "ca.crt"),
        (*key, "-config", "ca.cnf", "-subj", "/CN=server", "-keyout", "tls.key", "-out", "csr"),
        ("x509", "-req", "-in", "csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
         "-extfile", "ca.cnf", "-extensions", "server", "-out", "tls.crt"),
    ):  # fmt: skip
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
    (folder / "web.yml").write_text(
        "tls_server_config: {cert_file: tls.crt, key_file: tls.key}\n"
        f"basic_auth_users: {{weir: {BCRYPT}}}\n"
    )
    (folder / "prometheus.yml").write_text("{}\n")
    login = folder / "login"
    login.mkdir()
    (login / "username").write_text("weir")
    (login / "password").write_text("secret")
    return folder


@pytest.fixture(scope="module")
def server(folder):
    """Run the server; yield its address. It may not be ready yet: the client asks again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--web.config.file={folder / 'web.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        "--storage.tsdb.retention.time=100y",
        f"--query.max-samples={MAX_SAMPLES}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    yield f"https://127.0.0.1:{port}"
    process.terminate()
    process.wait(timeout=60)


def a_history(server, folder, **settings):
    defaults = {
        "auth": PasswordFromFolder(folder / "login"), "verify": str(folder / "ca.crt"),
        "attempts": 8, "rest": 0.0,
    }  # fmt: skip
    return PrometheusHistory(PrometheusSettings(url=server, **{**defaults, **settings}))


def test_all_samples_come_though_the_server_grants_less_than_a_piece(server, folder, monkeypatch):
    def strict():  # as from Python 3.13 on
        context = create_urllib3_context()
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(prometheus, "create_urllib3_context", strict)
    history = a_history(server, folder)
    begin = begin_of(DAY)

    found = list(history.samples(APP, begin, begin + HOURS * 3600))

    assert history.apps(begin, begin + 3600) == (APP,)
    assert len(found) > REPLICAS  # several pieces of each
    for replica in range(REPLICAS):
        own = [each for each in found if each.labels["tm_id"] == str(replica)]
        values = [value for each in own for value in each.values]
        times = [time for each in own for time in each.times_ms]
        assert values == [float(time) for time in range(0, HOURS * 3600, EVERY)]
        assert times == [round(1000 * (begin + value)) for value in values]


@pytest.mark.parametrize(
    "settings", [{"auth": None}, {"verify": True, "attempts": 1}], ids=["no password", "no CA"]
)
def test_without_the_password_or_the_certificate_there_is_no_history(server, folder, settings):
    with pytest.raises(SourceError, match=server):
        list(a_history(server, folder, **settings).samples(APP, begin_of(DAY), begin_of(DAY) + 60))
