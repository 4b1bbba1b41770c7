package example;

import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.util.Collector;

/** Reads rides from lines; a broken line is no ride. */
final class Parse implements FlatMapFunction<String, Ride> {
    private static final int FIELDS = 7;

    private final Service service;

    Parse(Service service) {
        this.service = service;
    }

    @Override
    public void flatMap(String line, Collector<Ride> out) throws InterruptedException {
        String[] fields = line.split(",");
        service.serve(Long.parseLong(fields[0]));
        if (fields.length != FIELDS) {
            return;
        }
        Ride ride = new Ride();
        ride.id = Long.parseLong(fields[0]);
        ride.fromLongitude = Double.parseDouble(fields[3]);
        ride.fromLatitude = Double.parseDouble(fields[4]);
        ride.toLongitude = Double.parseDouble(fields[5]);
        ride.toLatitude = Double.parseDouble(fields[6]);
        out.collect(ride);
    }
}
