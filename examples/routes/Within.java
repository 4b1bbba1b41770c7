package example;

import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.util.Collector;

/** Lets the rides pass that begin and end in the city. */
final class Within implements FlatMapFunction<Ride, Ride> {
    private final Service service;

    Within(Service service) {
        this.service = service;
    }

    @Override
    public void flatMap(Ride ride, Collector<Ride> out) throws InterruptedException {
        service.serve(ride.id);
        if (City.contains(ride.fromLongitude, ride.fromLatitude)
                && City.contains(ride.toLongitude, ride.toLatitude)) {
            out.collect(ride);
        }
    }
}
