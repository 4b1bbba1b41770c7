package example;

/** A grid of square cells over the area whose rides are counted; degrees. */
final class City {
    static final double WEST = -74.30;
    static final double SOUTH = 40.50;

    /** Side of a cell, about a kilometre. */
    static final double CELL = 0.01;

    static final int COLUMNS = 60;
    static final int ROWS = 50;

    private City() {}

    /** Returns whether a place lies in a cell of the grid. */
    static boolean contains(double longitude, double latitude) {
        int column = column(longitude);
        int row = row(latitude);
        return column >= 0 && column < COLUMNS && row >= 0 && row < ROWS;
    }

    /** Returns the name of the cell that a place lies in. */
    static String cell(double longitude, double latitude) {
        return column(longitude) + "." + row(latitude);
    }

    private static int column(double longitude) {
        return (int) Math.floor((longitude - WEST) / CELL);
    }

    private static int row(double latitude) {
        return (int) Math.floor((latitude - SOUTH) / CELL);
    }
}
