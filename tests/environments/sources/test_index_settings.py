"""Which package sources are in force: option, variable, the user's own files; and that no password is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.sources import index_settings
from tools.environments.sources.index_settings import IndexOptions, IndexSettings


def resolve(
    options: IndexOptions | None = None,
    environ: dict[str, str] | None = None,
    pip: Path | None = None,
    uv: Path | None = None,
) -> IndexSettings:
    return index_settings.resolve(
        options or IndexOptions(), environ or {}, pip_files=[pip] if pip else [], uv_files=[uv] if uv else []
    )


def test_nothing_given_means_the_tools_defaults() -> None:
    assert resolve() == IndexSettings()


def test_option_beats_variable_beats_the_users_own(tmp_path: Path) -> None:
    conf = tmp_path / "pip.conf"
    conf.write_text("[global]\nindex-url = https://conf.example/simple\n")
    environ = {"TMLAB_INDEX_URL": "https://lab.example/simple", "PIP_INDEX_URL": "https://pip.example/simple"}
    assert (
        resolve(IndexOptions(index_url="https://option.example/"), environ, conf).index_url == "https://option.example/"
    )
    found = resolve(None, environ, conf)
    assert (found.index_url, found.origin["index_url"]) == ("https://lab.example/simple", "TMLAB_INDEX_URL")
    del environ["TMLAB_INDEX_URL"]
    assert resolve(None, environ, conf).index_url == "https://pip.example/simple"
    assert resolve(None, {}, conf).origin["index_url"] == "pip's configuration"


@pytest.mark.parametrize(
    "text",
    [
        '[[index]]\nurl = "https://b.example"\n[[index]]\nurl = "https://uv.example/simple"\ndefault = true\n',
        'index-url = "https://uv.example/simple"\n',
        '[pip]\nindex-url = "https://uv.example/simple"\n',
    ],
)
def test_uvs_own_file_is_read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "uv.toml"
    file.write_text(text)
    assert resolve(uv=file).index_url == "https://uv.example/simple"


@pytest.mark.parametrize("text", ["index = 3\n", "not toml [", '[[index]]\nurl = "https://x.example"\n', "pip = 1\n"])
def test_a_file_of_uv_that_says_nothing_usable_is_passed_over(tmp_path: Path, text: str) -> None:
    file = tmp_path / "uv.toml"
    file.write_text(text)
    assert resolve(uv=file).index_url is None


def test_extra_indexes_are_not_followed_and_that_is_said(tmp_path: Path) -> None:
    conf = tmp_path / "pip.conf"
    conf.write_text("[install]\nextra-index-url = https://download.pytorch.org/whl/cpu\n")
    found = resolve(None, {"PIP_EXTRA_INDEX_URL": "https://download.pytorch.org/whl/cpu"}, conf)
    assert found.index_url is None
    assert found.ignored == ("PIP_EXTRA_INDEX_URL", "extra-index-url in pip's configuration")


def test_of_pips_file_only_the_network_is_carried(tmp_path: Path) -> None:
    conf = tmp_path / "pip.conf"
    conf.write_text("[global]\nproxy = http://proxy.example:3128\ncert = /a.pem\ntarget = /elsewhere\nno-deps = true\n")
    assert resolve(pip=conf).network == {"PIP_PROXY": "http://proxy.example:3128", "PIP_CERT": "/a.pem"}
    assert "PIP_CERT" not in resolve(None, {"PIP_CERT": "/b.pem"}, conf).network


def test_a_torn_file_of_pip_is_pips_to_complain_about(tmp_path: Path) -> None:
    conf = tmp_path / "pip.conf"
    conf.write_text("index-url without a section")
    assert resolve(pip=conf) == IndexSettings()
    conf.write_bytes(b"\xff\xfe[global]")
    assert resolve(pip=conf) == IndexSettings()


def test_find_links_by_option_variable_and_preset(tmp_path: Path) -> None:
    for folder in ("a", "b", "with space"):
        (tmp_path / folder).mkdir()
    a, b, spaced = (str(tmp_path / folder) for folder in ("a", "b", "with space"))
    assert resolve(IndexOptions(find_links=(a,)), {"TMLAB_FIND_LINKS": b}).find_links == (a,)
    assert resolve(None, {"TMLAB_FIND_LINKS": f"{a},{b}", "PIP_FIND_LINKS": spaced}).find_links == (a, b)
    preset = resolve(None, {"UV_FIND_LINKS": b, "PIP_FIND_LINKS": f"{b} {a} /gone"})
    assert preset.find_links == (b, a)
    assert preset.origin["find_links"] == "UV_FIND_LINKS, PIP_FIND_LINKS"
    assert resolve(None, {"PIP_FIND_LINKS": spaced}).folders() == (Path(spaced),)


def test_a_relative_folder_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wheels").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve(IndexOptions(find_links=("wheels",))).find_links == (str(tmp_path / "wheels"),)


def test_a_named_folder_that_is_not_there_is_wrong_usage() -> None:
    with pytest.raises(LabError) as caught:
        resolve(IndexOptions(find_links=("/nowhere/wheels",)))
    assert (caught.value.code, caught.value.where) == (EXIT_USAGE, "--find-links")


@pytest.mark.parametrize("environ", [{"TMLAB_OFFLINE": "1"}, {"TMLAB_OFFLINE": "yes"}])
def test_offline_needs_a_folder(environ: dict[str, str]) -> None:
    with pytest.raises(LabError) as caught:
        resolve(None, environ)
    assert caught.value.code == EXIT_USAGE
    assert "--find-links DIR" in caught.value.next


def test_offline_by_variable(tmp_path: Path) -> None:
    assert resolve(None, {"TMLAB_OFFLINE": "1", "TMLAB_FIND_LINKS": str(tmp_path)}).offline
    for said in ("1", "true", "YES", "On", " y "):
        assert resolve(None, {"TMLAB_OFFLINE": said, "TMLAB_FIND_LINKS": str(tmp_path)}).offline
    for said in ("0", "false", "NO", "Off", "n", "", " "):
        assert not resolve(None, {"TMLAB_OFFLINE": said}).offline


@pytest.mark.parametrize("said", ["maybe", "2", "offline", "ja"])
def test_an_offline_that_says_neither_yes_nor_no_is_wrong_usage(said: str, tmp_path: Path) -> None:
    """It would mean that the network is used, which is what the user wanted to rule out."""
    with pytest.raises(LabError) as caught:
        resolve(IndexOptions(offline=True), {"TMLAB_OFFLINE": said, "TMLAB_FIND_LINKS": str(tmp_path)})
    assert (caught.value.code, caught.value.where) == (EXIT_USAGE, "TMLAB_OFFLINE")
    assert said in caught.value.found


@pytest.mark.parametrize("address", ["mirror.example/simple", "ftp://x.example", "http://[bad", "https://a b", "/dir"])
def test_an_address_that_is_none_is_wrong_usage(address: str) -> None:
    for options in (IndexOptions(index_url=address), IndexOptions(torch_index=address)):
        with pytest.raises(LabError) as caught:
            resolve(options)
        assert caught.value.code == EXIT_USAGE


def test_what_the_stamp_records_has_no_password(tmp_path: Path) -> None:
    options = IndexOptions(
        "https://me:s3cret@a.example/simple", "https://t0ken@b.example/cpu", ("https://u:pw@c.example/w",)
    )
    public = str(resolve(options).public())
    assert "a.example" in public
    for secret in ("s3cret", "t0ken", "pw@", "me:"):
        assert secret not in public


def test_where_pip_and_uv_keep_their_files(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert tmp_path / ".config/pip/pip.conf" in index_settings.pip_config_files(home)
    assert index_settings.pip_config_files({**home, "PIP_CONFIG_FILE": "/x/pip.conf"})[-1] == Path("/x/pip.conf")
    assert index_settings.pip_config_files({**home, "PIP_CONFIG_FILE": "/dev/null"}) == ()
    assert index_settings.uv_config_files(home)[0] == tmp_path / ".config/uv/uv.toml"
    assert index_settings.uv_config_files({**home, "UV_CONFIG_FILE": "/x/uv.toml"}) == (Path("/x/uv.toml"),)
    assert index_settings.uv_config_files({**home, "UV_NO_CONFIG": "1"}) == ()
