"""Write micro-batches to Delta (delta-rs) and Iceberg (PyIceberg), each once, without jars: ``pip install 'rillet[lake]'``.

Both tables record in their own transactions the last batch of each query, so a repeated batch is skipped, even after a
restart of the driver. Rows pass through the driver: keep batches moderate (``maxRowsPerTrigger``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

_QUERY: Final = "rillet.query"
_BATCH: Final = "rillet.batch"


def write_delta(folder: Path, batch: DataFrame, number: int, query: str) -> None:
    """Append a batch to a Delta table, unless it has it: the number is the version of a transaction named after the query."""
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    path = str(folder / "delta")
    if DeltaTable.is_deltatable(path):
        last = DeltaTable(path).transaction_version(query)
        if last is not None and last >= number:
            return
    properties = CommitProperties(app_transactions=[Transaction(query, number)])
    write_deltalake(path, batch.toArrow(), mode="append", commit_properties=properties)


def write_iceberg(folder: Path, name: str, batch: DataFrame, number: int, query: str) -> None:
    """Append a batch to an Iceberg table, unless it has it: the summary of each snapshot names the query and the batch."""
    rows = batch.toArrow()
    with iceberg_table(folder, name, rows.schema) as table:
        snapshots = reversed(table.metadata.snapshots)
        summaries = (each.summary.additional_properties for each in snapshots if each.summary is not None)
        last = next((int(each[_BATCH]) for each in summaries if each.get(_QUERY) == query), -1)
        if last < number:
            table.append(rows, snapshot_properties={_QUERY: query, _BATCH: str(number)})


@contextmanager
def iceberg_table(folder: Path, name: str, schema: Any = None) -> Iterator[Any]:
    """Open a table (pyiceberg's) of the catalog in a folder. If a schema (pyarrow's) is given, create it if need be."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder = folder.resolve()
    catalog = SqlCatalog(
        "rillet", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )
    try:
        if schema is None:
            yield catalog.load_table(name)
        else:
            catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
            yield catalog.create_table_if_not_exists(name, schema)
    finally:
        catalog.engine.dispose()  # closes the file
