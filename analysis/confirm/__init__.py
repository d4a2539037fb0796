"""Whether a remedy helps: what can be changed of a program from outside, and what trials of it say.

| module | job |
|---|---|
| interventions | what can be changed, which advice that answers, and the lines that make it last |
| runs | what one run of a trial gave |
| verdicts | claimed against seen, with intervals, corrected for how many were tried; whether results stayed the same |
| result | all of it as plain data |
"""
