-- Bids for one of 123 auctions.
SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0
