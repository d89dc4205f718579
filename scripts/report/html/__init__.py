"""The page: `markup` escapes, `chart` and `spans` draw, `sections` and `page` compose it."""
