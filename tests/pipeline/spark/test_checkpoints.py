"""How `session()` has Spark write its checkpoints: quicker, and as any other Spark does."""

import pytest
from py4j.protocol import Py4JJavaError
from support.spark.queries import collected

CLASS = "spark.sql.streaming.checkpointFileManagerClass"
PACKAGE = "org.apache.spark.sql.execution.streaming.checkpointing"
OURS = f"{PACKAGE}.FileSystemBasedCheckpointFileManager"
SPARKS = f"{PACKAGE}.FileContextBasedCheckpointFileManager"  # what Spark takes for local files by default


@pytest.fixture
def taken(spark, redis, stream, tmp_path):
    """Runs a query in batches of two with one way to write its checkpoint; gives the ids that it read."""

    def run(manager, first, count):
        redis.pipeline([("XADD", stream, f"{n}-0", "n", n) for n in range(first, first + count)])
        given = {"streams": stream, "startingOffsets": "earliest", "maxRowsPerTrigger": "2"}
        frame = spark.readStream.format("redis-streams").options(**redis.options, **given).load()
        spark.conf.set(CLASS, manager)
        try:
            return [int(row.id.removesuffix("-0")) for row in collected(frame, tmp_path)]
        finally:
            spark.conf.set(CLASS, OURS)

    return run


def files(folder):
    return {
        each.relative_to(folder).as_posix()
        for log in ("offsets", "commits")
        for each in (folder / log).iterdir()
    }


def test_a_session_sets_it(spark, redis):
    assert spark.conf.get(CLASS) == OURS


def test_either_way_goes_on_with_what_the_other_left(taken, tmp_path):
    assert taken(OURS, 1, 4) == [1, 2, 3, 4]
    assert files(tmp_path) == {
        f"{log}/{name}" for log in ("offsets", "commits") for name in ("0", "1", ".0.crc", ".1.crc")
    }
    assert taken(SPARKS, 5, 4) == [5, 6, 7, 8]
    assert taken(OURS, 9, 2) == [9, 10]
    assert {f"commits/{name}" for name in ("4", ".4.crc")} <= files(tmp_path)


@pytest.mark.parametrize("then", [OURS, SPARKS], ids=["ours", "Spark's"])
def test_a_kill_between_a_file_and_its_checksum_does_no_harm(then, taken, tmp_path):
    taken(OURS, 1, 4)
    # Both ways rename the file first: the checksum still has its temporary name, or none was written.
    (tmp_path / "offsets" / ".1.crc").rename(tmp_path / "offsets" / "..1.89c1.tmp.crc")
    (tmp_path / "commits" / ".1.crc").unlink()
    assert taken(then, 5, 2) == [5, 6]


def test_a_checksum_that_is_left_of_a_file_that_went_is_replaced(taken, tmp_path):
    """Spark's own way would refuse to rename over it, and the query would fail."""
    taken(SPARKS, 1, 4)
    (tmp_path / "commits" / "1").unlink()  # a user who wants a batch again leaves `.1.crc`
    (tmp_path / "commits" / ".1.crc").write_bytes(b"crc\0\0\0\2\0\0\0\0\0")
    assert taken(OURS, 5, 2) == [3, 4, 5, 6]
    # It reads the file, and would find a checksum that is not the file's.
    assert taken(SPARKS, 7, 2) == [7, 8]


def test_a_name_that_is_taken_is_not_taken_again(spark, redis, tmp_path):
    """What shows a driver that another one has continued its checkpoint."""
    jvm = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    folder = jvm.org.apache.hadoop.fs.Path(str(tmp_path))
    for name in (OURS, SPARKS):
        conf.set(CLASS, name)
        manager = getattr(jvm, f"{PACKAGE}.CheckpointFileManager").create(folder, conf)
        assert manager.getClass().getName() == name

        def write(text, *, over, manager=manager):
            out = manager.createAtomic(jvm.org.apache.hadoop.fs.Path(str(tmp_path / "7")), over)
            out.write(text)
            out.close()

        write(b"first", over=True)
        with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
            write(b"second", over=False)
        assert (tmp_path / "7").read_bytes() == b"first"
        write(b"third", over=True)
        assert (tmp_path / "7").read_bytes() == b"third"
