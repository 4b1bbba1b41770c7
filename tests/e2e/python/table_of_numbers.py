"""The same by the Table API: a Python function in a query, into files."""

import sys

from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table.udf import udf

records, folder = sys.argv[1], sys.argv[2]


@udf(result_type=DataTypes.BIGINT())
def twice(number):
    """Return twice the number."""
    return 2 * number


env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
env.create_temporary_function("twice", twice)
env.execute_sql(f"""
    CREATE TABLE numbers (id BIGINT) WITH (
        'connector' = 'datagen', 'rows-per-second' = '150', 'fields.id.kind' = 'sequence',
        'fields.id.start' = '1', 'fields.id.end' = '{records}')""")
env.execute_sql(f"""
    CREATE TABLE doubled (id BIGINT) WITH (
        'connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv')""")
env.execute_sql("INSERT INTO doubled SELECT twice(id) FROM numbers")
