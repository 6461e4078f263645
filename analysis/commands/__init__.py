"""Turn runs, or the paper's printed cells, into tables, verdicts, the audit and the report.

examples:
  clm-or-mlm table 10
  clm-or-mlm claims --id F8 --explain
  clm-or-mlm audit --source released
  clm-or-mlm audit --letter --format html --out letter.html
  clm-or-mlm compare 610m-mlm40-42k 610m-clm-42k
  clm-or-mlm best split
  clm-or-mlm compare my-model '610m-*-42k' --source results/ --add-model my-model
  clm-or-mlm reproduce --source results/ --out build
"""
