-- 0.4: how many rows a condition leaves decides how the arms work with it.

alter type remem._query add attribute selective boolean;
