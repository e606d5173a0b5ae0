"""Prints the bytes of tests/tracking/tensorboard_test.cpp as TensorBoard writes them (pip install tensorboard==2.21.0)."""
import io

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

file = io.BytesIO()
writer = RecordWriter(file)
writer.write(Event(wall_time=1763200000.5, file_version="brain.Event:2").SerializeToString())
values = [Summary.Value(tag="train/loss", simple_value=1.5), Summary.Value(tag="a", simple_value=-2.0)]
writer.write(Event(wall_time=1763200001.25, step=300, summary=Summary(value=values)).SerializeToString())
print(file.getvalue().hex())
