-- The highest bid of every ten seconds.
SELECT bids.auction, bids.price, bids.bidder, bids.window_end
FROM (
    SELECT auction, price, bidder, window_start, window_end
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND))
) AS bids
JOIN (
    SELECT MAX(price) AS highest, window_start, window_end
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end
) AS tops
ON bids.window_start = tops.window_start
    AND bids.window_end = tops.window_end
    AND bids.price = tops.highest
