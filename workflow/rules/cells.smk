# One job a model and training set: all learning rates and seeds, and for retrieval all three datasets.
rule cell:
    input: lambda w: needs("cell", f"{w.model}/{w.dataset}")
    output: "done/cell/{model}/{dataset}.json"
    retries: again("cell")
    resources: **resources("cell")
    shell: STEP + " {output}"
