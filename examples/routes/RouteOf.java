package example;

import org.apache.flink.api.common.functions.MapFunction;

/** Names the route of a ride by the cells in which it begins and ends. */
final class RouteOf implements MapFunction<Ride, Ride> {
    private final Service service;

    RouteOf(Service service) {
        this.service = service;
    }

    @Override
    public Ride map(Ride ride) throws InterruptedException {
        service.serve(ride.id);
        ride.route =
                City.cell(ride.fromLongitude, ride.fromLatitude)
                        + "-"
                        + City.cell(ride.toLongitude, ride.toLatitude);
        return ride;
    }
}
