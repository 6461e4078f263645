# Documents become shards once; made-up datasets are for trials only.
rule data:
    output: "done/data/{name}.json"
    retries: again("data")
    resources: **resources("data")
    shell: STEP + " {output}"

rule shards:
    output: "done/shards/{name}.json"
    retries: again("shards")
    resources: **resources("shards")
    shell: STEP + " {output}"
