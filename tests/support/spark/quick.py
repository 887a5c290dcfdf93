"""Spark's settings for a handful of rows: Java is not worth compiling for them, nor plans worth changing on the way.

Nor is a Python process of Spark lost that a busy machine lets connect after 15 seconds only.
"""

from pathlib import Path
from typing import Final

# Verifying the bytecode of Spark's own classes takes 1.3 of the 10 s of processor time of a start.
JAVA: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
QUICK: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.authenticate.socketTimeout": "300s",
}


def quick_conf_dir(folder: Path) -> Path:
    """Return a SPARK_CONF_DIR with these settings, for processes whose sessions are made elsewhere."""
    conf = folder / "spark-conf"
    conf.mkdir(exist_ok=True)
    lines = (f"{name} {value}\n" for name, value in QUICK.items())
    (conf / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    return conf


def quick_home(folder: Path, *more: str) -> Path:
    """Return a SPARK_HOME without the archive of PySpark, which Spark puts before what pip installed.

    It holds no bytecode: each Python process of Spark would compile what it imports, for half of its second of processor time.

    Args:
        more: what is there besides programs and jars.
    """
    import pyspark  # only where a JVM starts

    home = folder / "spark-home"
    if not home.exists():
        home.mkdir()
        for part in ("bin", "jars", *more):
            (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    return home
