"""Write micro-batches to Delta (delta-rs) and Iceberg (PyIceberg), each once, without jars: ``pip install 'rillet[lake]'``.

Both tables record in their own transactions the last batch of each query, so a repeated batch is skipped, even after a
restart of the driver. Rows pass through the driver: keep batches moderate (``maxRowsPerTrigger``).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

_QUERY: Final = "rillet.query"
_BATCH: Final = "rillet.batch"


class DeltaTarget:
    """A Delta table in a folder; the batch number is the version of an application transaction named after the query."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "delta"

    def write(self, batch: DataFrame, number: int, query: str) -> None:
        """Append the rows of a batch, unless the table already has this batch."""
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

        path = str(self._folder)
        if DeltaTable.is_deltatable(path):
            last = DeltaTable(path).transaction_version(query)
            if last is not None and last >= number:
                return
        properties = CommitProperties(app_transactions=[Transaction(query, number)])
        write_deltalake(path, batch.toArrow(), mode="append", commit_properties=properties)


class IcebergTarget:
    """An Iceberg table of a catalog in an SQLite file; the summary of each snapshot names the query and the batch."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name

    def write(self, batch: DataFrame, number: int, query: str) -> None:
        """Append the rows of a batch, unless the table already has this batch."""
        rows = batch.toArrow()
        with self.table(rows.schema) as table:
            if self._last_batch(table, query) < number:
                table.append(rows, snapshot_properties={_QUERY: query, _BATCH: str(number)})

    @contextmanager
    def table(self, schema: Any = None) -> Iterator[Any]:
        """Open the table (pyiceberg's). If it does not exist and a schema (pyarrow's) is given, create it."""
        from pyiceberg.catalog.sql import SqlCatalog

        folder = self._folder.resolve()
        catalog = SqlCatalog(
            "rillet", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
        )
        try:
            if schema is None:
                yield catalog.load_table(self._name)
            else:
                catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
                yield catalog.create_table_if_not_exists(self._name, schema)
        finally:
            catalog.engine.dispose()  # closes the file

    @staticmethod
    def _last_batch(table: Any, query: str) -> int:
        snapshots = reversed(table.metadata.snapshots)
        summaries = (each.summary.additional_properties for each in snapshots if each.summary is not None)
        return next((int(each[_BATCH]) for each in summaries if each.get(_QUERY) == query), -1)
