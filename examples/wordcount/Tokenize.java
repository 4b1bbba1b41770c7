package example;

import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.util.Collector;

/** Cuts a line into its words: a record each, whose zone is the word. */
final class Tokenize implements FlatMapFunction<Trip, Trip> {
    private final Service service;
    private final int words;
    private final int vocabulary;
    private final long seed;

    /**
     * @param words in a line
     * @param vocabulary how many words there are
     */
    Tokenize(Service service, int words, int vocabulary, long seed) {
        this.service = service;
        this.words = words;
        this.vocabulary = vocabulary;
        this.seed = seed;
    }

    @Override
    public void flatMap(Trip line, Collector<Trip> out) throws InterruptedException {
        service.serve(line.id);
        for (int place = 0; place < words; place++) {
            Trip word = new Trip();
            word.id = line.id * words + place;
            // A function of the id: a restored job finds the same words in the same line.
            word.zone = (int) Long.remainderUnsigned(Draws.bits(seed, word.id), vocabulary);
            word.payload = line.payload;
            out.collect(word);
        }
    }
}
