from pathlib import Path

from rillet.commands.spec import markdown

PAGE = Path(markdown.__file__).parents[2] / "docs" / "commands.md"


def test_the_page_of_commands_is_up_to_date():
    written = PAGE.read_text(encoding="utf-8")
    assert written == markdown.page(), "run: python -m rillet.commands.spec.markdown docs/commands.md"


def test_the_tables_list_commands_by_group_and_escape_bars():
    lines = markdown.page().splitlines()
    assert lines[0] == "# Commands"
    assert next(line for line in lines if line.startswith("## ")) == "## Streams"
    assert any(line.startswith("| `XTRIM key <MAXLEN \\| MINID>") for line in lines)
    assert any(line.startswith("| `XGROUP CREATE key group") for line in lines)
    assert not any(line.startswith("| `XGROUP` ") for line in lines)


def test_the_command_line_writes_or_prints_the_page(tmp_path, monkeypatch, capsys):
    path = tmp_path / "commands.md"
    monkeypatch.setattr("sys.argv", ["markdown", str(path)])
    assert markdown.main() == 0
    assert path.read_text(encoding="utf-8") == markdown.page()
    monkeypatch.setattr("sys.argv", ["markdown"])
    assert markdown.main() == 0
    assert capsys.readouterr().out == markdown.page() + "\n"
