"""Non-negative factors of least I-divergence (Kullback-Leibler)."""
