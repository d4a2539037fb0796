"""A job of several ranks: one recording each, their clocks corrected, the time of a step in parts, and who made others wait.

`recording` makes a summary of one rank, `summaries` keeps it in files, and `engines` have captures read on one machine or many.
`matching` says which collectives of the ranks are one, `clocks` corrects their times, `waiting` splits them into waiting and
transfer, and charges waiting to the rank that came last. `messages` tells their sizes, `replay` what the job would gain. `job`
puts them together. `hang` says who is waited for in a job that hangs, by what `flight_recorder` reads.
"""
