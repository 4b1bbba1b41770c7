-- The mean of the highest bids, by category.
SELECT category, AVG(final) AS mean
FROM (
    SELECT MAX(bid.price) AS final, auction.category
    FROM auction
    JOIN bid ON auction.id = bid.auction
    WHERE bid.ts BETWEEN auction.ts AND auction.expires
    GROUP BY auction.id, auction.category
)
GROUP BY category
