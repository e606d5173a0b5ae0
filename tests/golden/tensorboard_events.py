"""Prints the bytes of tests/tracking/tensorboard_test.cpp as TensorBoard writes them: a line for each event."""
import io

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_TENSOR, Summary
from tensorboard.plugins.histogram import metadata as histograms
from tensorboard.plugins.text import metadata as texts
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto


def tensor(tag, plugin, data):
    metadata = plugin.create_summary_metadata(display_name=None, description=None)
    metadata.data_class = DATA_CLASS_TENSOR
    return Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=make_tensor_proto(data))])


def show(**fields):
    file = io.BytesIO()
    RecordWriter(file).write(Event(**fields).SerializeToString())
    print(file.getvalue().hex())


values = [Summary.Value(tag="train/loss", simple_value=1.5), Summary.Value(tag="a", simple_value=-2.0)]
rows = np.array([[-1, 0.25, 2], [0.25, 1.5, 3]], dtype=np.float64)
show(wall_time=1763200000.5, file_version="brain.Event:2")
show(wall_time=1763200001.25, step=300, summary=Summary(value=values))
show(wall_time=1763200001.25, step=300, summary=tensor("histograms/weight", histograms, rows))
show(wall_time=1763200001.25, step=300, summary=tensor("sample/1", texts, "<pre>a</pre>"))
show(wall_time=1763200001.25, step=301, session_log=SessionLog(status=SessionLog.START))
