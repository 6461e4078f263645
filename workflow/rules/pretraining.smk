# A trunk or stage that models share is a job; a model's decay and its export are another. A job that meets its
# time limit has saved its work and ends with 75; `retries` starts the next one, which goes on.
rule trajectory:
    input: lambda w: needs("trajectory", w.name)
    output: "done/trajectory/{name}.json"
    retries: again("trajectory")
    resources: **resources("trajectory")
    priority: 10
    shell: STEP + " {output}"

rule model:
    input: lambda w: needs("model", w.name)
    output: "done/model/{name}.json"
    retries: again("model")
    resources: **resources("model")
    priority: 5
    shell: STEP + " {output}"
