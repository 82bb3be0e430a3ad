"""Public data sets by name: `registry` lists them with source and hash, `fetch` downloads them."""
