-- A job that knows nothing of Weir. It counts readings per sensor, and computes a digest of every
-- count, for which one CPU core is not enough.
CREATE TABLE readings (sensor INT) WITH (
    'connector' = 'datagen',
    'rows-per-second' = '1500',
    'fields.sensor.min' = '0',
    'fields.sensor.max' = '999'
);

CREATE TABLE digests (sensor INT, digest STRING) WITH ('connector' = 'blackhole');

INSERT INTO digests
SELECT sensor, SHA512(REPEAT(CAST(readings AS STRING), 100000))
FROM (SELECT sensor, COUNT(*) AS readings FROM readings GROUP BY sensor);
