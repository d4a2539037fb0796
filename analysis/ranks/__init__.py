"""A job of several ranks: it reads one recording of each, corrects their clocks, splits a step and finds who made others wait.

`recording` summarises one rank, `summaries` keeps summaries in files, and `engines` read captures on one machine or many.
`matching` finds the same collective on all ranks, `clocks` corrects times, and `waiting` splits collectives into waiting and
transfer and charges waiting to the rank that came last. `messages` finds sizes, `replay` predicts what the job would gain, and
`job` puts it all together. `hang` finds who is waited for in a job that hangs, from the dumps that `flight_recorder` reads.
"""
