"""What came out: paired comparisons with intervals, tables, figures, one page, and metrics for DVC."""
