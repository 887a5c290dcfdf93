from pathlib import Path

import pytest

from rillet.commands.spec import markdown as matrix

README = Path(matrix.__file__).parents[2] / "README.md"


def test_the_readme_tells_the_commands_as_they_are():
    text = README.read_text(encoding="utf-8")
    assert matrix.with_matrix(text) == text, "run: python -m rillet.commands.spec.markdown README.md"


def test_the_table_lists_commands_by_group_and_escapes_bars():
    lines = matrix.readme_matrix().splitlines()
    assert lines[0] == "### Streams"
    assert any(line.startswith("| `XTRIM key <MAXLEN \\| MINID>") for line in lines)
    assert any(line.startswith("| `XGROUP CREATE key group") for line in lines)
    assert not any(line.startswith("| `XGROUP` ") for line in lines)


def test_only_the_part_between_the_markers_is_replaced():
    text = f"before\n{matrix.BEGIN}\nstale text\n{matrix.END}\nafter\n"
    replaced = matrix.with_matrix(text)
    assert replaced.startswith(f"before\n{matrix.BEGIN}\n\n### Streams\n")
    assert replaced.endswith(f"{matrix.END}\nafter\n")
    assert "stale text" not in replaced
    assert matrix.with_matrix(replaced) == replaced


def test_a_text_without_markers_is_refused():
    with pytest.raises(ValueError, match="<!-- commands -->"):
        matrix.with_matrix("nothing here")


def test_the_command_line_rewrites_files(tmp_path, monkeypatch, capsys):
    path = tmp_path / "README.md"
    path.write_text(f"{matrix.BEGIN}{matrix.END}", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["matrix", str(path)])
    assert matrix.main() == 0
    assert "| `XCLAIM key group" in path.read_text(encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["matrix"])
    assert matrix.main() == 0
    assert capsys.readouterr().out.startswith("### Streams")
