"""Methods that factorise the data, X = H B', with the labels steering the factors."""
