"""The log on disk by itself: what was appended is read, however it was left."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from svc_ml.client.spool import log
from svc_ml.client.spool.log import Record, SpoolFull, SpoolReader, SpoolWriter
from svc_ml.spool.folder import COPIES, About, create_spool_folder


def a_record(number: int, size: int = 20) -> Record:
    return Record(1 + number % 5, number, random.Random(number).randbytes(size))


def read_all(reader: SpoolReader, entries_max: int = 1_000_000) -> list[Record]:
    found: list[Record] = []
    while True:
        records, end = reader.read(None, entries_max, 1 << 30)
        if not records:
            return found
        found += records
        reader.acknowledge(end)


def test_records_are_read_in_the_order_in_which_they_were_appended_over_many_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SEGMENT_BYTES", 3_000)
    writer = SpoolWriter(tmp_path, 1 << 30)
    records = [a_record(it, it % 3_000) for it in range(200)]
    for it in range(0, 200, 4):
        writer.append(records[it : it + 4])
    assert len(list(tmp_path.glob("*.log"))) > 5

    reader = SpoolReader(tmp_path)
    assert read_all(reader, entries_max=300) == records
    assert reader.damaged_bytes == 0
    assert len(list(tmp_path.glob("*.log"))) == 1, "segments that are acknowledged whole are deleted"


def test_a_batch_stays_the_same_after_a_crash_however_much_was_appended_since(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, 1 << 30)
    writer.append([a_record(1), a_record(2)])
    first, end = SpoolReader(tmp_path).read(None, 1_000, 1_000)
    writer.append([a_record(3)])

    again, end_again = SpoolReader(tmp_path).read(None, 1_000, 1_000)
    assert (again, end_again) == (first, end)
    reader = SpoolReader(tmp_path)
    reader.acknowledge(end)
    assert SpoolReader(tmp_path).read(None, 1_000, 1_000)[0] == [a_record(3)]


@pytest.mark.parametrize("torn_bytes", [1, 5, 12, 13, 20, 32])
def test_a_torn_tail_costs_the_last_record_only(tmp_path: Path, torn_bytes: int) -> None:
    writer = SpoolWriter(tmp_path, 1 << 30)
    writer.append([a_record(it) for it in range(5)])
    segment = tmp_path / "00000001.log"
    data = segment.read_bytes()
    segment.write_bytes(data[:-torn_bytes])

    reader = SpoolReader(tmp_path)
    assert read_all(reader) == [a_record(it) for it in range(4)]
    assert reader.damaged_bytes == len(log.encode_record(a_record(4))) - torn_bytes


def test_a_flipped_bit_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    whole = log.encode_record(a_record(7))
    for at in range(len(whole)):
        folder = tmp_path / str(at)
        writer = SpoolWriter(folder, 1 << 30)
        writer.append([a_record(6), a_record(7)])
        segment = folder / "00000001.log"
        data = bytearray(segment.read_bytes())
        data[-len(whole) + at] ^= 0x10
        segment.write_bytes(data)
        reader = SpoolReader(folder)
        assert read_all(reader) == [a_record(6)]
        assert reader.damaged_bytes == len(whole)


def test_a_damaged_record_in_the_middle_costs_no_other_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SEGMENT_BYTES", 100)
    writer = SpoolWriter(tmp_path, 1 << 30)
    for it in range(12):
        writer.append([a_record(it)])
    segment = tmp_path / "00000002.log"
    data = bytearray(segment.read_bytes())
    data[len(log.MAGIC) + 20] ^= 1
    segment.write_bytes(data)
    lost = (len(data) - len(log.MAGIC)) // len(log.encode_record(a_record(0)))

    reader = SpoolReader(tmp_path)
    found = read_all(reader)
    assert len(found) == 12 - lost
    assert found[0] == a_record(0) and found[-1] == a_record(11)


def test_a_half_written_note_of_what_was_sent_leaves_the_one_before(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, 1 << 30)
    writer.append([a_record(1)])
    reader = SpoolReader(tmp_path)
    reader.acknowledge(reader.read(None, 1, 1)[1])
    writer.append([a_record(2)])
    reader.read(None, 1, 1)
    sent = tmp_path / "sent"
    data = bytearray(sent.read_bytes())
    turn = max(0, 1, key=lambda slot: data[slot * 64])
    data[turn * 64 + 30] ^= 1
    sent.write_bytes(data)
    assert SpoolReader(tmp_path).read(None, 9, 999)[0] == [a_record(2)]


def test_beyond_its_bound_nothing_is_written_and_what_was_stays(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, 1_000)
    writer.append([a_record(1, 500)])
    with pytest.raises(SpoolFull):
        writer.append([a_record(2, 600)])
    writer.append([a_record(3, 100)])
    assert read_all(SpoolReader(tmp_path)) == [a_record(1, 500), a_record(3, 100)]


def test_a_copy_that_was_sent_and_deleted_meanwhile_counts_as_nothing(tmp_path: Path) -> None:
    folder = create_spool_folder(tmp_path, About("b", "a", "http://127.0.0.1:1", None))
    copies = folder.path / COPIES
    copies.mkdir()
    (copies / "waits").write_bytes(b"12345")
    # Listed, but not there any more.
    (copies / "sent").symlink_to(copies / "gone")
    assert folder.copied_bytes() == 5
    folder.close()
