"""Which value a setting has, where it came from, and what is said when it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from semgraph.errors import PlanError
from semgraph.llm import catalogue
from semgraph.llm.endpoints import retry_policy
from semgraph.llm.settings import RunLimits, Settings, masked
from semgraph.llm.stack import RetryPolicy

KEY = "sk-proj-0123456789abcdefWXYZ"


@pytest.fixture
def load(tmp_path: Path):
    """Loads settings in an empty folder with an empty home; `toml` and `user` are the texts of the
    two files.
    """
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()

    def load(
        options=None, env=None, toml: str | None = None, user: str | None = None, **more
    ) -> Settings:
        if toml is not None:
            (tmp_path / "work" / "semgraph.toml").write_text(toml)
        if user is not None:
            (tmp_path / "home" / "config.toml").write_text(user)
        environment = {"SEMGRAPH_HOME": str(tmp_path / "home"), **(env or {})}
        return Settings.load(options, environment, tmp_path / "work", **more)

    return load


def problems(load, *args, **kwargs) -> list[str]:
    with pytest.raises(PlanError) as caught:
        load(*args, **kwargs)
    assert caught.value.exit_code == 2
    return [str(problem) for problem in caught.value.problems]


def test_the_default_is_local_and_names_the_unset_variables(load):
    settings = load()
    assert str(settings.model()) == "local"
    assert settings["models.default"].origin == "default (SEMGRAPH_LLM, OPENAI_API_KEY: not set)"
    assert str(settings.embedder) == "local"
    assert settings.store == "sqlite:.semgraph/graph.db"
    assert settings.operators == ()
    assert settings.limits == RunLimits()
    assert settings.journal_path == settings.cwd / ".semgraph/journal.db"
    assert settings.keep_days is None
    assert retry_policy(settings) == RetryPolicy()


@pytest.mark.parametrize("given", range(4))
def test_option_then_environment_then_file_then_user_config(load, given):
    """Each source wins over all below it."""
    sources = [
        ({"store": "memory"}, "option"),
        ({"SEMGRAPH_STORE": "neo4j"}, "environment SEMGRAPH_STORE"),
        ('store = "neo4j://db:7687"', "./semgraph.toml"),
        ('store = "sqlite:/tmp/user.db"', "config.toml"),
    ]
    wanted = ["memory", "neo4j", "neo4j://db:7687", "sqlite:/tmp/user.db"][given]
    settings = load(
        sources[0][0] if given == 0 else {},
        sources[1][0] if given <= 1 else {},
        sources[2][0] if given <= 2 else None,
        sources[3][0],
    )
    assert settings.store == wanted
    assert settings["store"].origin.endswith(sources[given][1])


def test_the_whole_file_is_read(load):
    settings = load(
        toml="""
        store = "sqlite:graph.db"
        operators = ["my_ops"]
        [models]
        default = "openai:gpt-4.1-mini"
        small = "openai:gpt-4.1-nano"
        judge = "openai:Qwen3-32B@http://gpu:8000/v1"
        embed = "local:all-MiniLM-L6-v2"
        [limits]
        rpm = 5000
        tpm = 2_000_000
        max_usd = 10
        [journal]
        path = "answers.db"
        keep_days = 7
        """
    )
    assert settings.store == f"sqlite:{settings.cwd}/graph.db"
    assert settings.operators == (settings.cwd / "my_ops",)
    assert settings.roles == ("default", "judge", "small")
    assert settings.model("small").model == "gpt-4.1-nano"
    assert settings.model("judge").base_url == "http://gpu:8000/v1"
    assert settings.embedder.model == "all-MiniLM-L6-v2"
    assert settings.limits == RunLimits(rpm=5000, tpm=2_000_000, max_usd=10.0)
    assert settings.journal_path == settings.cwd / "answers.db"
    assert settings.keep_days == 7


def test_keep_days_0_is_no_journal(load):
    assert load(toml="[journal]\nkeep_days = 0").journal_path is None


def test_a_named_file_replaces_the_one_in_the_folder_and_its_paths_start_from_it(load, tmp_path):
    (tmp_path / "team").mkdir()
    named = tmp_path / "team" / "shared.toml"
    named.write_text('operators = ["ops"]\nstore = "sqlite:team.db"')
    for settings in (
        load(toml='store = "memory"', config=named),
        load(env={"SEMGRAPH_CONFIG": "../team/shared.toml"}),
    ):
        assert [folder.resolve() for folder in settings.operators] == [tmp_path / "team" / "ops"]
        assert (
            Path(settings.store.removeprefix("sqlite:")).resolve() == tmp_path / "team" / "team.db"
        )


def test_a_named_file_must_exist(load, tmp_path):
    (problem,) = problems(load, config=tmp_path / "none.toml")
    assert "none.toml: there is no such file" in problem


class TestModels:
    def test_a_key_chooses_the_model_and_its_embedder(self, load):
        settings = load(env={"OPENAI_API_KEY": KEY})
        assert str(settings.model()) == "openai:gpt-4.1-mini"
        assert settings["models.default"].origin == "environment OPENAI_API_KEY"
        assert str(settings.embedder) == "openai:text-embedding-3-small?dimensions=1024"

    def test_a_key_does_not_change_a_named_model(self, load):
        settings = load(env={"OPENAI_API_KEY": KEY}, toml='[models]\ndefault = "local"')
        assert (str(settings.model()), str(settings.embedder)) == ("local", "local")

    def test_texts_are_not_sent_to_openai_for_vectors_beside_a_model_elsewhere(self, load):
        here = load({"llm": "openai:Qwen3-32B@http://gpu:8000/v1"}, {"OPENAI_API_KEY": KEY})
        there = load({}, {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://gpu:8000/v1"})
        assert str(here.embedder) == str(there.embedder) == "local"

    def test_llm_as_option_replaces_every_role(self, load):
        """`--llm recorded` must not leave the role `small` at a paid endpoint."""
        toml = '[models]\ndefault = "openai:a"\nsmall = "openai:b"'
        settings = load({"llm": "recorded"}, toml=toml)
        assert settings.roles == ("default",)
        assert str(settings.model("small")) == "recorded"

    def test_llm_in_the_environment_replaces_the_files_and_a_role_as_option_replaces_it(self, load):
        toml = '[models]\nsmall = "openai:b"'
        settings = load({"models.small": "openai:c"}, {"SEMGRAPH_LLM": "local"}, toml)
        assert str(settings.model()) == "local"
        assert str(settings.model("small")) == "openai:c"

    def test_a_recorded_model_implies_recorded_vectors_unless_an_embedder_is_set(self, load):
        toml = '[models]\nembed = "openai:text-embedding-3-small"'
        assert str(load({"llm": "recorded:r.jsonl"}, toml=toml).embedder) == "recorded:r.jsonl"
        assert str(load({"llm": "recorded", "embedder": "local"}, toml=toml).embedder) == "local"
        assert str(load({"llm": "local"}, toml=toml).embedder) == "openai:text-embedding-3-small"

    def test_a_role_without_a_model_falls_back_to_default_and_a_misspelt_one_is_refused(self, load):
        settings = load()
        assert settings.model("small") == settings.model("judge") == settings.model()
        with pytest.raises(PlanError, match=r'no model is bound to the role "smal"'):
            settings.model("smal")

    def test_neo4j_uri_does_not_choose_where_to_write(self, load):
        assert load(env={"NEO4J_URI": "bolt://prod:7687"}).store == "sqlite:.semgraph/graph.db"


def test_retries_are_set_by_variables_and_files(load):
    env = {"SEMGRAPH_RETRIES_ATTEMPTS": "2"}
    settings = load(env=env, toml="[retries]\nattempts = 5\nseconds = 1.5")
    assert retry_policy(settings) == RetryPolicy(attempts=2, deadline=1.5)
    assert settings["retries.attempts"].origin == "environment SEMGRAPH_RETRIES_ATTEMPTS"


class TestMistakes:
    def test_all_problems_are_reported_at_once(self, load):
        toml = 'stor = "memory"\n[limits]\nrpm = "many"\n[models]\ndefault = "opnai:x"'
        found = problems(load, {"journal.keep_day": 3}, {"SEMGRAPH_EMBEDER": "local"}, toml)
        assert [problem.partition(":")[0] for problem in found] == [
            "option",
            "environment",
            *["./semgraph.toml"] * 3,
        ]
        assert 'unknown setting "journal.keep_day"' in found[0]
        assert 'Did you mean "journal.keep_days"?' in found[0]
        assert 'Did you mean "SEMGRAPH_EMBEDDER"?' in found[1]
        assert 'Did you mean "store"?' in found[2]
        assert "limits.rpm must be a whole number above 0. Found 'many'" in found[3]
        assert 'Did you mean "openai"?' in found[4]

    @pytest.mark.parametrize(
        ("toml", "said"),
        [
            ("[limits]\nmax_usd = 0", "limits.max_usd must be a number above 0"),
            ("[limits]\nrpm = 1.5", "limits.rpm must be a whole number above 0"),
            ("[limits]\nrpm = true", "limits.rpm must be a whole number above 0"),
            ("[limits]\nmax_usd = nan", "limits.max_usd must be a number above 0"),
            ("[journal]\nkeep_days = -1", "journal.keep_days must be a whole number of at least 0"),
            ("[retries]\nattempts = 0", "retries.attempts must be a whole number above 0"),
            ("limits = 3", "limits is a table: write [limits]"),
            ("operators = 3", "operators must be a list of folders"),
            ("store = 3", "store must be text"),
            ("[models]\ndefault = 3", "models.default must be text"),
            ('[models]\ndefault = "local:Qwen"', 'unknown local model "Qwen"'),
            ('llm = "local"', 'unknown setting "llm"'),
            ('store = "shards:sqlite:g?n=3"', "a graph is in one store"),
            ('store = "shards:neo4j://a,neo4j://b"', "Name a server for several machines"),
        ],
    )
    def test_a_wrong_value_is_named_with_its_file(self, load, toml, said):
        (problem,) = problems(load, toml=toml)
        assert problem.startswith("./semgraph.toml: ")
        assert said in problem

    @pytest.mark.parametrize(
        ("toml", "said"),
        [
            ("[models]\ndefault = local", "Invalid value (at line 2, column 11)"),
            ("[limits]\nrpm: 3", "Expected '=' after a key in a key/value pair (at line 2, column 4)"),
            ('store = "a"\nstore = "b"\n', "Cannot overwrite a value (at line 2, column 12)"),
        ],
    )  # fmt: skip
    def test_an_invalid_file_is_an_error_with_its_line(self, load, toml, said):
        assert problems(load, toml=toml) == [f"./semgraph.toml: invalid TOML: {said}"]

    def test_a_file_that_is_not_utf_8_is_named(self, load, tmp_path):
        path = tmp_path / "latin1.toml"
        path.write_bytes("store = 'caf\xe9'".encode("latin-1"))
        (problem,) = problems(load, config=path)
        assert problem.endswith(
            "latin1.toml: cannot be read. Byte 12 is not UTF-8. Save it as UTF-8"
        )

    def test_variables_of_other_programs_are_ignored(self, load):
        load(env={"SEMGRAPH_TEST_SERVER": "x"})

    def test_an_empty_variable_is_not_set(self, load):
        assert str(load(env={"SEMGRAPH_LLM": "", "OPENAI_API_KEY": ""}).model()) == "local"

    @pytest.mark.parametrize(
        ("text", "offline"), [("1", True), ("true", True), ("0", False), ("no", False)]
    )
    def test_offline(self, load, text, offline):
        assert catalogue.offline(load(env={"SEMGRAPH_OFFLINE": text}).environment) is offline


class TestSecrets:
    def test_keys_and_passwords_are_never_printed(self, load):
        env = {
            "OPENAI_API_KEY": KEY,
            "NEO4J_PASSWORD": "hunter22",
            "NEO4J_URI": "neo4j://me:hunter22@db:7687",
        }
        settings = load(
            {"llm": "openai:m@https://me:hunter22@gpu/v1", "store": "neo4j://me:hunter22@db"}, env
        )
        shown = repr(list(settings.rows())) + repr(settings)
        assert "hunter22" not in shown
        assert KEY[:-4] not in shown
        assert ("OPENAI_API_KEY", "…WXYZ", "environment") in list(settings.rows())

    def test_a_short_key_shows_nothing(self):
        assert masked("abcd1234") == "set"


def test_rows_list_every_setting_with_its_origin(load):
    settings = load(
        {"models.small": "local"}, {"SEMGRAPH_LLM": "openai:m"}, 'operators = ["a", "b"]'
    )
    rows = {key: (value, origin) for key, value, origin in settings.rows()}
    assert rows["models.default"] == ("openai:m", "environment SEMGRAPH_LLM")
    assert rows["models.small"] == ("local", "option")
    assert rows["operators"] == ("a, b", "./semgraph.toml")
    assert rows["journal.path"] == (".semgraph/journal.db", "default")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("defualt", "default"),
        ("Default", "default"),
        ("smal", "small"),
        ("embedder", "embed"),
        ("embbed", "embed"),
    ],
)
def test_a_misspelt_role_is_refused_with_a_suggestion(load, written: str, meant: str):
    (said,) = problems(load, toml=f'[models]\n{written} = "openai:gpt-4.1-mini"\n')
    assert f'./semgraph.toml: "models.{written}" is an unknown role' in said
    assert f'Did you mean "models.{meant}"?' in said


@pytest.mark.parametrize("role", ["judge", "smart", "smaller", "local_model"])
def test_a_users_own_role_is_accepted(load, role: str):
    settings = load(toml=f'[models]\n{role} = "openai:gpt-4.1-mini"\n')
    assert settings.model(role).model == "gpt-4.1-mini"


def test_a_role_that_no_prompt_can_name_is_refused(load):
    (said,) = problems(load, toml='[models]\n"my role" = "local"\n')
    assert 'unknown setting "models.my role"' in said
