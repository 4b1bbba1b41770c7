package dev.weir.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.streaming.runtime.io.PushingAsyncDataInput.DataOutput;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
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
    void slowRecordsAreAllTimed() throws Exception {
        Meter meter = new Meter();
        meter.measure();

        for (int record = 0; record < 100; record++) {
            meter.beginPoll();
            Thread.sleep(0, 100_000);
            meter.endPolled(null);
        }

        assertEquals(100, meter.count());
    }

    @Test
    void aSourceSendsSomeMarkersASecondBehindItsRecords() throws Exception {
        Meter meter = new Meter();
        meter.mark(new OperatorID());
        List<String> sent = new ArrayList<>();
        Object output =
                Proxy.newProxyInstance(
                        MeterTest.class.getClassLoader(),
                        new Class<?>[] {DataOutput.class},
                        (proxy, method, arguments) -> sent.add(method.getName()));

        for (int record = 0; record < 20; record++) {
            Thread.sleep(70);
            meter.endPolled(output);
        }
        int behindSlow = sent.size();
        for (int record = 0; record < 100_000; record++) {
            meter.endPolled(output);
        }

        assertEquals(20, behindSlow);
        assertTrue(sent.size() - behindSlow < 200, "" + sent.size());
        assertEquals(Set.of("emitLatencyMarker"), Set.copyOf(sent));
    }

    @Test
    void recordsBetweenTwoMarkersAreAsOldAsTheSecond() throws Exception {
        Meter meter = new Meter();
        meter.begin();
        meter.age(100);
        meter.age(100);
        for (int record = 0; record < 9; record++) {
            meter.endPolled(null);
        }
        meter.age(200);

        assertEquals(10, meter.agedCount());
        assertEquals((100 + 9 * 200) * 1e3, meter.agedMicros());
    }

    @Test
    void aMarkerIsMadeAsOldAsTheRecordsThatWaitForCalls() {
        Meter meter = new Meter();
        meter.mark(new OperatorID());
        LatencyMarker sent = new LatencyMarker(10_000, new OperatorID(), 3);
        long millis = 1_000_000;

        meter.noteWaiting(0, 5_000 * millis);
        for (int second = 5; second < 7; second++) {
            for (int call = 0; call < 10; call++) { // 10 a second, each of which takes 40 ms
                meter.noteWaiting(0, (1000 * second + 100 * call) * millis);
                meter.noteCall();
                meter.noteWaiting(1, (1000 * second + 100 * call + 40) * millis);
            }
        }

        assertEquals(10_000 - 40, meter.older(sent).getMarkedTime());
        assertEquals(3, meter.older(sent).getSubtaskIndex());
    }

    @Test
    void aMarkerOfTheFutureMakesNoRecordYounger() throws Exception {
        Meter meter = new Meter();
        meter.begin();

        meter.age(-5);

        assertEquals(1, meter.agedCount());
        assertEquals(0, meter.agedMicros());
    }
}
