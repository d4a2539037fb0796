"""Whether a remedy helps: what can be changed in a program from outside, and the results of trials.

| module | job |
|---|---|
| interventions | what can be changed, which advice that answers, and the lines that make it permanent |
| runs | the result of one run of a trial |
| verdicts | claimed against seen, with intervals, corrected for the number of trials; whether results stayed the same |
| result | all of it as plain data |
"""
