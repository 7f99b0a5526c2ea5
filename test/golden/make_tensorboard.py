#!/usr/bin/env python3
"""Events as TensorBoard's own writer puts them, and what its own reader makes of them: tensorboard.tfevents and
tensorboard.json, by which the reader of test/cli/tfevents.py is held. Needs the package tensorboard.

    python test/golden/make_tensorboard.py
"""
import glob
import json
import os
import shutil
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

HERE = os.path.dirname(os.path.abspath(__file__))
SCALARS = [('train/loss', 1, 5.5412845611572266, 1794968820.271), ('train/loss', 2, 5.25, 1794968821.5), ('train/lr', 2, 0.001, 1794968821.5),
           ('eval/loss', 300000, -0.0, 1794968822.0)]
TEXTS = [('samples', 2, ['And God|said \u00e9', 'x|<b>'], 1794968823.25)]

with tempfile.TemporaryDirectory() as folder:
    writer = EventFileWriter(folder)
    for tag, step, value, time in SCALARS:
        summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, simple_value=value)])
        writer.add_event(event_pb2.Event(wall_time=time, step=step, summary=summary))
    for tag, step, texts, time in TEXTS:
        tensor = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[text.encode() for text in texts],
                                        tensor_shape=tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=len(texts))]))
        metadata = summary_pb2.SummaryMetadata(plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name='text'))
        summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, tensor=tensor, metadata=metadata)])
        writer.add_event(event_pb2.Event(wall_time=time, step=step, summary=summary))
    histogram = summary_pb2.HistogramProto(min=0.5, max=2, num=3, sum=3.5, sum_squares=5.25, bucket_limit=[1, 2], bucket=[2, 1])
    writer.add_event(event_pb2.Event(wall_time=1794968824.0, step=3, summary=summary_pb2.Summary(
        value=[summary_pb2.Summary.Value(tag='norms', histo=histogram)])))
    writer.close()
    path = glob.glob(os.path.join(folder, '*'))[0]
    reader = EventAccumulator(path)
    reader.Reload()
    expected = {'scalars': sorted([tag, e.step, e.value, e.wall_time] for tag in reader.Tags()['scalars'] for e in reader.Scalars(tag)),
                'texts': [[tag, e.step, [t.decode() for t in e.tensor_proto.string_val], e.wall_time] for tag in reader.Tags()['tensors']
                          for e in reader.Tensors(tag)],
                'histograms': [[tag, e.step, e.histogram_value.min, e.histogram_value.max, e.histogram_value.num, list(e.histogram_value.bucket)]
                               for tag in reader.Tags()['histograms'] for e in reader.Histograms(tag)]}
    shutil.copy(path, os.path.join(HERE, 'tensorboard.tfevents'))
with open(os.path.join(HERE, 'tensorboard.json'), 'w', encoding='utf-8') as file:
    json.dump(expected, file, indent=1, sort_keys=True)
    file.write('\n')
