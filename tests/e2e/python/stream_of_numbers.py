"""A PyFlink program that knows nothing of Weir: numbers, one Python function, files."""

import sys
import time

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.serialization import Encoder
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, RollingPolicy
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

records, milliseconds, folder = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]


def work(number):
    """Take a while."""
    time.sleep(milliseconds / 1000)
    return str(number)


sink = (
    FileSink.for_row_format(folder, Encoder.simple_string_encoder())
    .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    .build()
)
env = StreamExecutionEnvironment.get_execution_environment()
env.from_source(
    NumberSequenceSource(1, records), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
).rebalance().map(work, Types.STRING()).name("work").disable_chaining().sink_to(sink)
env.execute("numbers in python")
