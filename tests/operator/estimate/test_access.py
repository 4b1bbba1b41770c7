"""Ways to log in to a Prometheus server, as people have them."""

import pytest
from aiohttp import web

from tests.operator.http_server import serving
from weir_operator.errors import PermanentError
from weir_operator.estimate.access import connect


async def headers_of(headers, http_config=None):
    """Return the headers with which a server is asked."""
    seen = {}

    async def answer(request):
        seen.update(request.headers)
        return web.json_response({"status": "success", "data": ["trips"]})

    async with serving(answer) as url:
        server = connect(url, headers, http_config)
        assert await server.label_values("job_name", '{job_name="trips"}', 0, 60) == ["trips"]
        await server.close()
    return seen


async def test_headers_are_sent():
    seen = await headers_of({"X-Scope-OrgID": "team-a"})

    assert seen["X-Scope-OrgID"] == "team-a"
    assert "Authorization" not in seen


@pytest.mark.parametrize(
    ("config", "sent"),
    [
        ("bearer_token: secret", "Bearer secret"),
        ("bearer_token_file: FOLDER/token", "Bearer secret"),
        ("authorization: {credentials: secret}", "Bearer secret"),
        ("authorization: {type: Token, credentials: secret}", "Token secret"),
        ("basic_auth: {username: weir, password: secret}", "Basic d2VpcjpzZWNyZXQ="),
    ],
)
async def test_a_file_for_promtool_logs_in(tmp_path, config, sent):
    file = tmp_path / "http.yml"
    (tmp_path / "token").write_text("secret\n")
    config = config.replace("FOLDER", str(tmp_path))
    file.write_text(f"{config}\nhttp_headers: {{X-Scope-OrgID: {{values: [team-a]}}}}\n")

    seen = await headers_of({}, file)

    assert seen["Authorization"] == sent
    assert seen["X-Scope-OrgID"] == "team-a"


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("oauth2: {client_id: a}", "a mistake at oauth2"),
        ("tls_config: {ca_file: [1]}", "a mistake at tls_config.ca_file"),
        ("a: [", "a mistake at the file"),
    ],
)
def test_what_is_not_understood_of_such_a_file_is_named(tmp_path, config, sentence):
    file = tmp_path / "http.yml"
    file.write_text(config)

    with pytest.raises(PermanentError, match=sentence):
        connect("http://x", {}, file)


def test_two_ways_to_log_in_are_one_too_many(tmp_path):
    file = tmp_path / "http.yml"
    file.write_text("bearer_token: a\nauthorization: {credentials: b}")

    with pytest.raises(PermanentError, match="expected one of basic_auth, authorization and bear"):
        connect("http://x", {}, file)


@pytest.mark.parametrize(
    "config",
    [
        "bearer_token_file: /nothing",
        "basic_auth: {username: a, password_file: /nothing}",
        "tls_config: {ca_file: /nothing}",
    ],
)
def test_a_file_that_is_not_there_is_told_before_anything_is_asked(tmp_path, config):
    file = tmp_path / "http.yml"
    file.write_text(config)

    with pytest.raises(PermanentError, match=r"[Ee]xpected a .*/nothing"):
        connect("http://x", {}, file)
    with pytest.raises(PermanentError, match=r"--http\.config\.file: expected a file"):
        connect("http://x", {}, tmp_path / "nothing")
