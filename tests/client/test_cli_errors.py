"""How the command line fails: one sentence, a hint, the documented code, never a traceback."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from remem_pg.cli import output
from remem_pg.cli import settings as conf
from remem_pg.operating.json_line import BATCH_LINES
from tests.client.cli_runner import Cli
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cli(db_dsn: str) -> Cli:
    return Cli(db_dsn)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("remember", ""), "RM001"),
        (("remember", "text", "--kind", "nonsense"), "RM001"),
        (("remember", "text", "--metadata", '{"a": "\\u0000"}'), "RM003"),
        (("recall", "text", "-k", "-1"), "RM001"),
        (("recall", "text", "--option", "unknown=1"), "RM002"),
        (("recall", "text", "--filter", "$$$"), "RM001"),
        (("get", "nothing"), "RM101"),
    ],
)
def test_bad_input_is_one_sentence_with_its_code(
    cli: Cli, arguments: tuple[str, ...], code: str
) -> None:
    done = cli(*arguments)
    assert done.returncode == conf.REFUSED
    assert done.stdout == ""
    assert done.stderr.startswith(code)
    assert "Traceback" not in done.stderr
    as_json = cli(*arguments, "--json")
    assert as_json.returncode == conf.REFUSED
    assert json.loads(as_json.stdout)["error"]["code"] == code
    assert as_json.stderr == ""


def test_a_server_that_refuses_the_role_is_not_called_silent(db_dsn: str) -> None:
    done = Cli(make_conninfo(db_dsn, user="nobody_of_that_name"))("count")
    assert done.returncode == conf.UNREACHABLE
    assert done.stderr.startswith("Postgres refused the connection: ")
    assert "no answer" not in done.stderr


def test_a_place_that_cannot_be_written_is_one_sentence(cli: Cli) -> None:
    done = cli("backup", "--output", "/nowhere/at/all.dump")
    assert done.returncode == conf.REFUSED
    assert done.stderr.startswith("/nowhere/at/all.dump")
    assert "Traceback" not in done.stderr


def test_a_list_of_what_is_valid_is_told_once_and_whole(cli: Cli) -> None:
    said = cli("remember", "text", "--kind", "nonsense").stderr
    assert "..." not in said
    assert "procedure, task, other" in said


def test_help_flows_in_paragraphs(cli: Cli) -> None:
    said = " ".join(cli("worker", "--help").stdout.split())
    assert "the current one of a workspace, or the one that remem reembed" in said


def test_an_unreachable_server_has_its_own_code() -> None:
    done = Cli("postgresql://nobody@127.0.0.1:1/none?connect_timeout=2")("count", "--json")
    assert done.returncode == conf.UNREACHABLE
    assert json.loads(done.stdout)["error"]["type"] == "ServerUnavailable"


def test_a_conninfo_that_is_none_is_refused_in_a_sentence() -> None:
    done = Cli("this is no conninfo")("count")
    assert done.returncode in (conf.REFUSED, conf.UNREACHABLE)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_malformed_dsn_is_not_shown(more: tuple[str, ...]) -> None:
    dsn = "postgresql://app:my%secret@127.0.0.1/app"
    done = Cli(None)("--dsn", dsn, "recall", "x", *more)
    assert done.returncode == conf.REFUSED
    assert "secret" not in done.stdout + done.stderr
    assert "the DSN is not a connection string" in done.stdout + done.stderr


def test_a_model_that_is_not_there_is_refused_in_a_sentence(db_dsn: str) -> None:
    done = Cli(db_dsn)("recall", "x", "--embedding", "/no/such/model")
    assert "Traceback" not in done.stderr
    assert "/no/such/model" in done.stderr


@pytest.mark.parametrize("arguments", [("no-such-command",), ("recall",), ("list", "-n", "many")])
def test_wrong_usage_is_code_two(arguments: tuple[str, ...]) -> None:
    done = Cli(None)(*arguments)
    assert done.returncode == conf.USAGE
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "option", "flag"),
    [
        ("recall", "k=1", "-k"),
        ("recall", "query=1", "QUERY"),
        ("recall", "self=1", "no option self"),
        ("explain", "k=1", "-k"),
        ("context", 'where="x"', "--where"),
        ("context", "prompt=x", "PROMPT"),
        ("context", "providers=x", "--notes"),
        ("plan", "scope={}", "--project"),
    ],
)
def test_an_option_that_has_a_flag_of_its_own_is_wrong_usage(
    cli: Cli, command: str, option: str, flag: str
) -> None:
    done = cli(command, "x", "--option", option)
    assert done.returncode == conf.USAGE
    assert flag in done.stderr
    assert "Traceback" not in done.stderr


def test_help_is_quick_and_loads_no_model_runtime() -> None:
    cli = Cli(None)
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(cli.command("--help"), env=cli.environment, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # Processor time, which other work on the machine does not lengthen much; half of it is usual.
    assert statistics.median(spent) < 0.8
    probe = (
        "import sys, remem_pg.cli.app;"
        "print(sorted({'numpy', 'onnxruntime', 'psycopg', 'tokenizers'} & set(sys.modules)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"


def test_help_and_the_documentation_list_the_same_exit_codes() -> None:
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    table = text.split("## Exit codes")[1]
    rows = dict(re.findall(r"^\| (\d+) \| (.+?) \|$", table, re.MULTILINE))
    assert {
        int(code): re.sub("`", "", meaning) for code, meaning in rows.items()
    } == conf.EXIT_CODES
    shown = " ".join(Cli(None, COLUMNS="200")("recall", "--help").stdout.split())
    assert "130 interrupted" in shown


def test_every_command_is_documented() -> None:
    from remem_pg.cli.app import app

    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    names = {str(command.name) for command in app.registered_commands}
    for group in app.registered_groups:
        assert group.typer_instance is not None
        members = group.typer_instance.registered_commands
        names |= {f"{group.name} {command.name}" for command in members}
    rows = re.findall(r"^\| `remem ([a-z-]+(?: (?:download|status)\b)?)", text, re.MULTILINE)
    assert names == set(rows)


def test_a_reader_that_goes_away_is_no_error(cli: Cli) -> None:
    lines = "".join(json.dumps({"body": f"Note {n}. " + "word " * 200}) + "\n" for n in range(600))
    assert cli("import", "-", stdin=lines).returncode == 0
    with subprocess.Popen(
        cli.command("list", "-n", "600", "--json"),
        env=cli.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("list",), conf.OK),
        (("list", "--json"), conf.OK),
        (("--help",), conf.OK),
        (("list", "--help"), conf.OK),
        (("--version",), conf.OK),
        (("get", "nothing"), conf.REFUSED),
        (("get", "nothing", "--json"), conf.REFUSED),
        (("no-such-command",), conf.USAGE),
    ],
)
def test_a_reader_that_never_was_changes_no_code(
    cli: Cli, arguments: tuple[str, ...], code: int
) -> None:
    cli("remember", "Plain text.")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        cli.command(*arguments), env=cli.environment, stdout=writer, stderr=writer, check=False
    )
    os.close(writer)
    assert done.returncode == code


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("list", "--json"),
        ("export", "-"),
        ("version", "--json"),
        ("get", "nothing", "--json"),
        ("--help",),
        ("--version",),
    ],
)
def test_a_full_disk_is_one_sentence(cli: Cli, arguments: tuple[str, ...]) -> None:
    cli("remember", "Plain text.")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            cli.command(*arguments),
            env=cli.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == conf.REFUSED
    refused = "RM101" if "nothing" in arguments else "reading or writing failed: No space left"
    assert done.stderr.startswith(refused)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "closed", "code"),
    [
        (("list",), ">&-", conf.OK),
        (("list", "--json"), ">&-", conf.OK),
        (("export", "-"), ">&-", conf.OK),
        (("--help",), ">&-", conf.OK),
        (("get", "nothing"), "2>&-", conf.REFUSED),
        (("import", "-"), "<&-", conf.OK),
        (("remember", "-"), "<&-", conf.REFUSED),
        (("purge", "nothing"), "<&-", conf.REFUSED),
        (("context", "-"), "<&- >&- 2>&-", conf.OK),
    ],
)
def test_a_closed_stream_is_the_null_device(
    cli: Cli, arguments: tuple[str, ...], closed: str, code: int
) -> None:
    cli("remember", "Plain text.")
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *cli.command(*arguments)],
        env=cli.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == code


def test_a_file_that_fails_while_it_is_read_is_one_sentence(cli: Cli) -> None:
    done = cli("import", "/proc/self/mem")
    assert done.returncode == conf.REFUSED
    assert done.stderr.startswith("reading or writing failed: ")
    document = json.loads(cli("import", "/proc/self/mem", "--json").stdout)
    assert document["error"]["message"].startswith("reading or writing failed: ")


def test_an_interrupt_is_code_130(cli: Cli) -> None:
    with subprocess.Popen(
        cli.command("import", "-"),
        env=cli.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A suite that was started in the background ignores interrupts, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdin is not None and process.stderr is not None
        # A full batch is stored before the next read blocks, so its message names the line.
        process.stdin.write(
            "".join(f'{{"body": "Note {n}."}}\n' for n in range(1, BATCH_LINES + 1))
        )
        process.stdin.flush()
        wait_for_rows(cli, BATCH_LINES)
        process.send_signal(signal.SIGINT)
        error = process.stderr.read()
        process.wait(timeout=30)
    assert process.returncode == conf.INTERRUPTED
    assert "interrupted" in error
    assert f"--from-line {BATCH_LINES + 1}" in error
    assert "Traceback" not in error


def test_an_interrupt_before_the_command_runs_is_quiet() -> None:
    cli = Cli(None)
    cli.before = """
import sys
class Interrupting:
    def find_spec(self, name, *_):
        raise KeyboardInterrupt
sys.modules.pop("remem_pg.cli.app", None)
sys.meta_path.insert(0, Interrupting())
"""
    done = cli("--help")
    assert (done.returncode, done.stderr) == (conf.INTERRUPTED, "")


def wait_for_rows(cli: Cli, wanted: int) -> None:
    until(lambda: cli.json("count")["count"] >= wanted, 60, "the first batch never arrived")


def test_piped_output_has_no_escape_sequences(cli: Cli) -> None:
    cli("remember", "Plain text.")
    for arguments in (("recall", "plain text"), ("list",), ("get", "nothing")):
        done = cli(*arguments)
        assert "\x1b" not in done.stdout + done.stderr


def test_no_color_is_honoured_on_a_terminal(cli: Cli) -> None:
    cli("remember", "Plain text.")
    assert re.search(r"\x1b\[[0-9;]*3[0-9]", on_a_terminal(cli, "get", "nothing"))
    cli.environment["NO_COLOR"] = "1"
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", on_a_terminal(cli, "get", "nothing"))


def on_a_terminal(cli: Cli, *arguments: str) -> str:
    master, slave = pty.openpty()
    environment = cli.environment | {"TERM": "xterm-256color", "COLUMNS": "80"}
    with subprocess.Popen(
        cli.command(*arguments), env=environment, stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        data = b""
        while True:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # Linux reports the closed terminal this way
                break
            if not chunk:
                break
            data += chunk
        process.wait(timeout=30)
    os.close(master)
    return data.decode("utf-8", "replace")


def test_a_memory_cannot_drive_the_terminal(cli: Cli) -> None:
    cli("remember", "Red \x1b[31malert\x07 \u202etxet", "--ref", "\x1b]0;owned\x07", "--title", "T")
    for arguments in (("recall", "red alert"), ("list",)):
        shown = cli(*arguments).stdout
        assert "alert" in shown
        assert not set(shown) & set("\x1b\x07\u202e")


def test_square_brackets_are_text_and_no_markup(cli: Cli) -> None:
    cli("remember", "Use [bold]arrays[/bold] of [int].", "--ref", "b")
    assert "[bold]arrays[/bold] of [int]." in cli("recall", "arrays").stdout


def test_a_terminal_that_is_not_utf8_shows_substitutes(db_dsn: str) -> None:
    ascii_only = Cli(db_dsn, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    ascii_only("remember", "Grüße 金曜日", "--ref", "u")
    assert ascii_only("recall", "grüße").returncode == 0
    assert ascii_only.json("get", "u")["body"] == "Grüße 金曜日"


def test_tables_fit_eighty_columns(cli: Cli) -> None:
    cli("remember", "word " * 100, "--ref", "x" * 90, "--title", "y " * 60)
    for arguments in (("recall", "word"), ("list",)):
        widths = [len(line) for line in cli(*arguments).stdout.splitlines()]
        assert max(widths) <= 80


@pytest.mark.parametrize("arguments", [("recall", "harbour"), ("list",)])
def test_a_narrow_terminal_shows_the_memory(cli: Cli, arguments: tuple[str, ...]) -> None:
    cli("remember", "The harbour opens at nine.", "--kind", "preference")
    cli.environment["COLUMNS"] = "20"
    assert "harbour" in cli(*arguments).stdout


def test_the_page_and_the_command_line_know_the_same_degraded_states() -> None:
    _, _, section = (ROOT / "docs" / "recall.md").read_text().partition("## Degraded states")
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = {code.partition(":")[0] for cell in cells for code in re.findall("`([^`]+)`", cell)}
    assert named == set(output.DEGRADED)


@pytest.mark.parametrize("code", [*output.DEGRADED, "arm_failed:vector"])
def test_every_degraded_state_says_what_to_do(code: str) -> None:
    (line,) = output.degraded_lines([code])
    assert line.startswith(f"{code}: ")
    assert len(line.split(". ")) > 1
