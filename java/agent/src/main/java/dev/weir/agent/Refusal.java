package dev.weir.agent;

/** What is asked for cannot be right; the job is not submitted, and the message says why. */
public final class Refusal extends RuntimeException {
    Refusal(String message) {
        super(message);
    }
}
