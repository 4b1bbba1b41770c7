-- Every bid as it is.
SELECT auction, bidder, price, ts, extra FROM bid
