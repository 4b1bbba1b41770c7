-- Who registers and offers something for sale in the same ten seconds.
SELECT persons.id, persons.name, persons.window_start
FROM (
    SELECT id, name, window_start, window_end
    FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY id, name, window_start, window_end
) AS persons
JOIN (
    SELECT seller, window_start, window_end
    FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY seller, window_start, window_end
) AS auctions
ON persons.id = auctions.seller
    AND persons.window_start = auctions.window_start
    AND persons.window_end = auctions.window_end
