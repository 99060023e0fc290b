-- Why a run ended with tasks left; its state is then 'partial'.
ALTER TABLE run ADD COLUMN reason TEXT NOT NULL DEFAULT '';
