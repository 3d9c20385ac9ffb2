"""What a request costs on its way: `python -m bench` from the checkout.

A scenario (`scenarios/`, one file each) starts something that answers chat completions and names its processes;
the driver (`driver.py`) loads it and reads what each process spent; `report.py` prints and writes the rows.
Nothing here is imported by the services or installed with them.
"""
