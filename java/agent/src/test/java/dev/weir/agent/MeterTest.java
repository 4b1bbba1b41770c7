package dev.weir.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class MeterTest {
    @Test
    void nothingIsMeasuredBeforeATaskIsAttached() {
        assertEquals(0, new Meter().begin());
    }

    @Test
    void quickRecordsAreTimedNowAndThen() {
        Meter meter = new Meter();
        meter.measure();

        for (int record = 0; record < 100_000; record++) {
            long start = meter.begin();
            if (start != 0) {
                meter.end(start);
            }
        }

        assertTrue(meter.count() > 1_000 && meter.count() < 20_000, "" + meter.count());
    }

    @Test
    void slowRecordsAreAllTimed() throws InterruptedException {
        Meter meter = new Meter();
        meter.measure();

        for (int record = 0; record < 100; record++) {
            meter.beginPoll();
            Thread.sleep(0, 100_000);
            meter.endPolled();
        }

        assertEquals(100, meter.count());
    }

    @Test
    void recordsBetweenTwoMarkersAreAsOldAsTheSecond() {
        Meter meter = new Meter();
        meter.begin();
        meter.age(100);
        meter.age(100);
        for (int record = 0; record < 9; record++) {
            meter.endPolled();
        }
        meter.age(200);

        assertEquals(10, meter.agedCount());
        assertEquals((100 + 9 * 200) * 1e3, meter.agedMicros());
    }
}
