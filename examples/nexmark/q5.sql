-- Which auctions had most bids in the last ten seconds, every two seconds.
SELECT counted.auction, counted.bids, counted.window_end
FROM (
    SELECT auction, COUNT(*) AS bids, window_start, window_end
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end
) AS counted
JOIN (
    SELECT MAX(bids) AS most, window_start, window_end
    FROM (
        SELECT auction, COUNT(*) AS bids, window_start, window_end
        FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
        GROUP BY auction, window_start, window_end
    )
    GROUP BY window_start, window_end
) AS hottest
ON counted.window_start = hottest.window_start
    AND counted.window_end = hottest.window_end
    AND counted.bids >= hottest.most
