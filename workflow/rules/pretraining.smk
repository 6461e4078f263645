# A trunk or stage that models share is a job; a model's decay and its export are another. A job that meets its
# time limit has saved its work and ends with 75; `retries` starts the next one, which goes on.
rule stage:
    input: lambda w: needs("stage", w.name)
    output: "done/stage/{name}.json"
    retries: again("stage")
    resources: **resources("stage")
    priority: 10
    shell: STEP + " {output}"

rule model:
    input: lambda w: needs("model", w.name)
    output: "done/model/{name}.json"
    retries: again("model")
    resources: **resources("model")
    priority: 5
    shell: STEP + " {output}"
