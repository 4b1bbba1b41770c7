-- How many bids a person made before a pause of ten seconds.
SELECT bidder, COUNT(*) AS bids, window_start, window_end
FROM TABLE(
    SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '10' SECOND)
)
GROUP BY bidder, window_start, window_end
