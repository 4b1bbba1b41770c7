package example;

import org.apache.flink.api.common.functions.MapFunction;

/** The operator without keys: it only takes its time. */
final class Match implements MapFunction<Trip, Trip> {
    private final Service service;

    Match(Service service) {
        this.service = service;
    }

    @Override
    public Trip map(Trip trip) throws InterruptedException {
        service.serve(trip.id);
        return trip;
    }
}
