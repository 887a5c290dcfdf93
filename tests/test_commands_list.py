from pathlib import Path

from rillet.docs._site import commands_list

PAGE = Path(commands_list.__file__).parents[2] / "docs" / "commands.md"


def test_the_page_of_commands_is_up_to_date():
    written = PAGE.read_text(encoding="utf-8")
    assert written == commands_list.page(), "run: python docs/_site/commands_list.py docs/commands.md"


def test_the_tables_list_commands_by_group_and_escape_bars():
    lines = commands_list.page().splitlines()
    assert lines[0] == "# Commands"
    assert next(line for line in lines if line.startswith("## ")) == "## Streams"
    assert any(line.startswith("| `XTRIM key <MAXLEN \\| MINID>") for line in lines)
    assert any(line.startswith("| `XGROUP CREATE key group") for line in lines)
    assert not any(line.startswith("| `XGROUP` ") for line in lines)


def test_the_command_line_writes_or_prints_the_page(tmp_path, monkeypatch, capsys):
    path = tmp_path / "commands.md"
    monkeypatch.setattr("sys.argv", ["commands_list", str(path)])
    assert commands_list.main() == 0
    assert path.read_text(encoding="utf-8") == commands_list.page()
    monkeypatch.setattr("sys.argv", ["commands_list"])
    assert commands_list.main() == 0
    assert capsys.readouterr().out == commands_list.page() + "\n"
